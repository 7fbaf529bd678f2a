/**
 * Returns a line that `sha256sum -c` reads. As in GNU coreutils, a name with a backslash or a line break is escaped, and
 * the line begins with a backslash.
 */
export function sumLine(sha256: string, path: string): string {
  // "-" means standard input.
  const name = path === '-' ? './-' : path
  const escaped = name.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return `${escaped === name ? '' : '\\'}${sha256}  ${escaped}\n`
}
