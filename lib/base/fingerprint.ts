import { createHash } from 'node:crypto'

/** Sixteen hexadecimal digits that are the same for the same JSON; undefined has one, too. */
export function fingerprintOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value) ?? '').digest('hex').slice(0, 16)
}
