import type { ManifestFile } from '../../../lib/model/manifest.js'

/** The text of a manifest with these files, in this order. */
export function manifestText(paths: readonly string[], fields: Partial<ManifestFile> = {}): string {
  return paths
    .map(path => {
      const file = {
        path,
        size: 1,
        mode: 0o100644,
        sha256: 'ab'.repeat(32),
        before: null,
        mtimeMs: 1000,
        ino: 7,
        ...fields
      }
      return `${JSON.stringify(file)}\n`
    })
    .join('')
}
