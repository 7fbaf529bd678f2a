/**
 * Returns the proposed directory of a new project: below the server's default directory, named after the project with
 * the characters that a path allows. Empty if there is no default directory or no name. Pure.
 */
export function proposedPath(base: string, name: string): string {
  const segment = name
    .trim()
    .toLowerCase()
    .normalize('NFC')
    .replace(/[^\p{Letter}\p{Number}._-]+/gu, '-')
    .replace(/^[-.]+|(?<![-.])[-.]+$/g, '')
  if (base === '' || segment === '') return ''
  const separator = base.includes('\\') ? '\\' : '/'
  return base.endsWith(separator) ? `${base}${segment}` : `${base}${separator}${segment}`
}
