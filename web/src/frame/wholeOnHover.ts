/** Shows the whole of a text that is cut off, as a tooltip, wherever the pointer comes. Elements with a tooltip of their own keep it. */
export function showWholeOnHover(): () => void {
  document.addEventListener("pointerover", onPointerOver, { passive: true });
  return () => document.removeEventListener("pointerover", onPointerOver);
}

function onPointerOver(event: PointerEvent): void {
  let element = event.target instanceof HTMLElement ? event.target : null;
  for (; element !== null && element !== document.body; element = element.parentElement) {
    const isOurs = element.dataset["whole"] !== undefined;
    if (element.title !== "" && !isOurs) return;
    if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).textOverflow === "ellipsis") {
      element.dataset["whole"] = "";
      element.title = element.textContent;
      return;
    }
    if (isOurs) {
      delete element.dataset["whole"];
      element.removeAttribute("title");
    }
  }
}
