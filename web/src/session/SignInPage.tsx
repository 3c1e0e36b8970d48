import { useEffect, useState, type SyntheticEvent } from "react";
import { Button } from "@/components/Button";
import { TextField } from "@/components/Form";
import { ProblemLine } from "@/components/ProblemView";
import { Command } from "@/components/EmptyState";
import { usePaletteKey } from "@/frame/paletteKey";
import { failedLink, signIn } from "./session";
import styles from "./SignInPage.module.css";

/** Signs a person in with a token. */
export function SignInPage() {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(failedLink);

  useEffect(() => {
    document.title = "Sign in · Atlas";
  }, []);
  // There is no palette here, and what was pressed here is not meant for the page that follows.
  usePaletteKey(() => undefined);

  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    signIn(token.trim())
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return (
    <main className={styles.page}>
      <form className={styles.box} onSubmit={submit}>
        <h1>Sign in to Atlas</h1>
        <TextField
          label="Token"
          hint="Ask your administrator for one."
          required
          type="password"
          autoComplete="current-password"
          placeholder="atl_…"
          value={token}
          onChange={setToken}
        />
        <ProblemLine error={error} />
        <Button type="submit" kind="primary" busy={busy} disabled={token.trim() === ""}>
          Sign in
        </Button>
        <p className={styles.help}>To get a sign-in link, run this on the machine that runs Atlas:</p>
        <Command text="atlas sign-in" />
      </form>
    </main>
  );
}
