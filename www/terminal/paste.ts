const controls = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g

/**
 * Returns a pasted text in the form that is safe to send. Line ends become the code of Enter. All other control
 * characters except tabs are removed: they could end a bracketed paste or act as keys.
 */
export function bytesOfPaste(text: string, { bracketedPaste }: { bracketedPaste: boolean }): string {
  const clean = text
    .replace(/\r\n|\n|\r/g, '\n')
    .replace(controls, '')
    .replaceAll('\n', '\r')
  return bracketedPaste ? `\x1b[200~${clean}\x1b[201~` : clean
}
