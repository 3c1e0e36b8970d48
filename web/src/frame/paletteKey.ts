import { useEffect, useEffectEvent } from "react";

let isPressed = false;
let open: (() => void) | null = null;

// From the moment on that the code is there: until the page has been drawn, the key is kept for it.
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  if (open === null) isPressed = true;
  else open();
});

/** What Ctrl-K does on this page. Pressed earlier, it is done now. */
export function usePaletteKey(run: () => void): void {
  const current = useEffectEvent(run);
  useEffect(() => {
    open = () => current();
    if (isPressed) open();
    isPressed = false;
    return () => {
      open = null;
    };
  }, []);
}
