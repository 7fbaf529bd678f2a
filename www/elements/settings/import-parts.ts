import type { ImportResult, PartResult } from '../../../lib/model/transfer.js'

/* The result of an import, or of its preview, part by part. Pure. */

/** One part of a package, and the result for its records. */
export interface ImportPart extends PartResult {
  /** English; passed to t(). */
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
  { key: 'artifacts', words: 'Archives deployed' }
] as const

/** Returns the parts that the package contains. */
export function partsOf(result: ImportResult): ImportPart[] {
  return partRows
    .map(({ key, words }) => ({
      words,
      created: result[key].created,
      replaced: result[key].replaced,
      skipped: result[key].skipped
    }))
    .filter(({ created, replaced, skipped }) => created.length + replaced.length + skipped.length > 0)
}

/** Returns a text with visible replacements for characters that would hide or reorder parts of it. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    character => {
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
    }
  )
}

/** Counts the records by result. Archives are files, not records, and are not counted. */
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
