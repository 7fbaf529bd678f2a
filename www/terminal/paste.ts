const controls = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g

/**
 * A pasted text as it may be sent: line ends become what Enter sends, and every other control character is left out, so
 * that nothing in it can end a bracketed paste or be taken for a key.
 */
export function bytesOfPaste(text: string, { bracketedPaste }: { bracketedPaste: boolean }): string {
  const clean = text.replace(/\r\n|\n|\r/g, '\n').replace(controls, '').replaceAll('\n', '\r')
  return bracketedPaste ? `\x1b[200~${clean}\x1b[201~` : clean
}
