import { createHash } from 'node:crypto'

/** Returns sixteen hexadecimal digits that are the same for equal JSON. Accepts undefined, too. */
export function fingerprintOf(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(value) ?? '')
    .digest('hex')
    .slice(0, 16)
}
