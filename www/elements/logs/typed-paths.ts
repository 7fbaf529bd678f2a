/** Returns the paths in a text with one path per line, without surrounding quotes, empty lines and duplicates. Pure. */
export function typedPaths(text: string): string[] {
  const paths = text
    .split(/\r?\n/)
    .map(line => line.trim().replace(/^(["'])(.*)\1$/, '$2'))
    .filter(path => path !== '')
  return [...new Set(paths)]
}
