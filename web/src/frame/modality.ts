let byKey = false;

document.addEventListener("keydown", () => (byKey = true), true);
document.addEventListener("pointerdown", () => (byKey = false), true);

/** Whether the last thing that a person did was to press a key: what opens then takes the focus. */
export function usesKeys(): boolean {
  return byKey;
}
