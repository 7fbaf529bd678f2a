/* Paths of a target that no archive may touch: the maintenance file, as long as the maintenance is on. */
import { Refusal } from '../base/refusal.js'
import type { Item } from './plan.js'

/**
 * Refuses (`conflict`, reserved_path) an archive with an entry at one of these paths, below it, or with a file where
 * the path needs a directory. Letter case and normal form are ignored, because the target may ignore them.
 */
export function refuseReserved(items: ReadonlyArray<Pick<Item, 'path' | 'kind'>>, reserved: readonly string[]): void {
  if (reserved.length === 0) return
  const paths = reserved.map(path => ({ path, folded: fold(path) }))
  for (const item of items) {
    const folded = fold(item.path)
    const touched = paths.find(
      ({ folded: own }) =>
        folded === own ||
        folded.startsWith(`${own}/`) ||
        (item.kind !== 'directory' && folded !== '' && own.startsWith(`${folded}/`))
    )
    if (touched === undefined) continue
    const sentence =
      `Nothing was changed: the archive contains "${item.path}", and "${touched.path}" is the maintenance file of ` +
      'this project. Leave it out of the archive, or turn the maintenance off (svc maintenance off)'
    throw new Refusal('conflict', 'reserved_path', sentence)
  }
}

function fold(path: string): string {
  return path.normalize('NFC').toLowerCase()
}
