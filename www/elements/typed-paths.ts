/** The paths of a text with one a line: without quotes around them, empty lines, and doubles. Pure. */
export function typedPaths(text: string): string[] {
  const paths = text.split(/\r?\n/).map(line => line.trim().replace(/^(["'])(.*)\1$/, '$2')).filter(path => path !== '')
  return [...new Set(paths)]
}
