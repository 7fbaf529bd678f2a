/* Paths of a target that no archive may touch: the maintenance file, as long as the maintenance is on. */
import { Refusal } from '../base/errors.js'
import type { Item } from './plan.js'

type Entry = Pick<Item, 'path' | 'kind'>

/** Refuses (`conflict`, reserved_path) an archive that touches one of these paths. */
export function refuseReserved(items: readonly Entry[], reserved: readonly string[]): void {
  const faultOf = createReserved(reserved)
  for (const item of items) {
    const fault = faultOf(item)
    if (fault !== null) throw fault
  }
}

/**
 * Returns a function that returns the refusal of an entry at one of these paths, below it, or with a file where the path
 * needs a directory; null for every other entry. Letter case and normal form are ignored, because the target may ignore
 * them.
 */
export function createReserved(reserved: readonly string[]): (item: Entry) => Refusal | null {
  if (reserved.length === 0) return () => null
  const paths = reserved.map(path => ({ path, own: fold(path) }))
  return ({ path, kind }) => {
    const folded = fold(path)
    const isInTheWay = (own: string): boolean => kind !== 'directory' && folded !== '' && own.startsWith(`${folded}/`)
    const touched = paths.find(({ own }) => folded === own || folded.startsWith(`${own}/`) || isInTheWay(own))
    return touched === undefined ? null : refusal(path, touched.path)
  }
}

function refusal(path: string, reserved: string): Refusal {
  const sentence =
    `Nothing was changed: the archive contains "${path}", and "${reserved}" is the maintenance file of ` +
    'this project. Leave it out of the archive, or turn the maintenance off (svc maintenance off)'
  return new Refusal('conflict', 'reserved_path', sentence)
}

function fold(path: string): string {
  return path.normalize('NFC').toLowerCase()
}
