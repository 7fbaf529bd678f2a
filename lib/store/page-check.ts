import type { Memory } from './memory.js'

/** What SQLite says is wrong with the pages; null: nothing. */
export function faultOfPages(memory: Memory): string | null {
  const found = String(memory.pragma('quick_check(1)'))
  return found === 'ok' ? null : found.replace(/^\*\*\*.*\*\*\*\s/, '').replaceAll('\n', '; ')
}
