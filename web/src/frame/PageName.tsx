import { useEffect, useState } from "react";

/** Reads the name of a page aloud when it is opened: the focus stays where it was. */
export function PageName() {
  const [name, setName] = useState("");
  useEffect(() => {
    const title = document.querySelector("title");
    if (title === null) return;
    const observer = new MutationObserver(() => setName(document.title.replace(/ · Atlas$/, "")));
    observer.observe(title, { childList: true });
    return () => observer.disconnect();
  }, []);
  return (
    <p className="visually-hidden" role="status" aria-label="Page">
      {name}
    </p>
  );
}
