import type { ImportResult, PartResult } from '../../lib/model/transfer.js'

/* What an import did, or would do, part by part. Pure. */

export interface ImportPart extends PartResult {
  /** English; said by t(). */
  words: string
}

const partRows = [
  { key: 'settings', words: 'Settings' },
  { key: 'categories', words: 'Categories' },
  { key: 'tags', words: 'Tags' },
  { key: 'projects', words: 'Projects' },
  { key: 'logSources', words: 'Log files' },
  { key: 'notificationTargets', words: 'Notification targets' },
  { key: 'deployments', words: 'Deployments' },
  { key: 'artifacts', words: 'Archives put in place' }
] as const

/** The parts of which the package has something. */
export function partsOf(result: ImportResult): ImportPart[] {
  return partRows
    .map(({ key, words }) => ({ words, created: result[key].created, replaced: result[key].replaced, skipped: result[key].skipped }))
    .filter(({ created, replaced, skipped }) => created.length + replaced.length + skipped.length > 0)
}

/** A text as it is, characters too that would hide or reorder a part of it. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, character => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** How many records there are of each kind; artifacts are files and do not count. */
export function countRecords(result: ImportResult): { created: number; replaced: number; skipped: number } {
  const counts = { created: 0, replaced: 0, skipped: 0 }
  for (const { key } of partRows) {
    if (key === 'artifacts') continue
    counts.created += result[key].created.length
    counts.replaced += result[key].replaced.length
    counts.skipped += result[key].skipped.length
  }
  return counts
}
