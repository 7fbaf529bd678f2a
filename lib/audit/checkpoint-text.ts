/*
 * The text of a checkpoint (C2SP tlog-checkpoint): the origin, the size of the tree, and the base64 of its root, one line
 * each. Lines after them are extensions. svc writes `baseline <entries>` for entries from before the tree.
 */
import { isBase64 } from './signed-note.js'
import { hashBytes } from './tree.js'

/** The state of a tree, as its server signs it. */
export interface Checkpoint {
  /** The name of the tree. */
  origin: string
  size: number
  root: Buffer
  extensions: readonly string[]
}

/** Returns the text of a checkpoint. */
export function writeCheckpoint({ origin, size, root, extensions }: Checkpoint): string {
  return [origin, String(size), root.toString('base64'), ...extensions, ''].join('\n')
}

/** Reads the text of a checkpoint; null if it is malformed. */
export function readCheckpoint(text: string): Checkpoint | null {
  const [origin, decimal, encoded, ...rest] = text.split('\n')
  if (!origin || decimal === undefined || encoded === undefined || rest.pop() !== '') return null
  if (!/^(0|[1-9]\d{0,15})$/.test(decimal) || !/^[A-Za-z0-9+/]{43}=$/.test(encoded)) return null
  const [size, root] = [Number(decimal), Buffer.from(encoded, 'base64')]
  if (!Number.isSafeInteger(size) || !isBase64(encoded) || root.length !== hashBytes || rest.includes('')) return null
  return { origin, size, root, extensions: rest }
}
