/** Returns the first fault that SQLite finds in the pages of a database, or null if there is none. */
export function faultOfPages(memory: { pragma(name: string): unknown }): string | null {
  const found = String(memory.pragma('quick_check(1)'))
  return found === 'ok' ? null : found.replace(/^\*\*\*.*\*\*\*\s/, '').replaceAll('\n', '; ')
}
