import { open } from 'node:fs/promises'
import { replaceFile } from '../base/replace-file.js'

/** Writes checkpoints to the file of the setting `checkpoint_file`. */
export interface CheckpointFile {
  /** Writes a signed note. Errors go to `onError`. Resolves when it is on the disk. */
  write(note: string): Promise<void>
}

const appendMark = '>>'
const mode = 0o644

/**
 * Creates the writer. `place` is the value of the setting: a path, whose file is replaced, or `>>` and a path, to whose
 * file each note is appended. Empty writes nothing.
 */
export function createCheckpointFile(needs: { place(): string; onError(error: unknown): void }): CheckpointFile {
  let latest: Promise<void> = Promise.resolve()

  async function writeOne(note: string): Promise<void> {
    const place = needs.place()
    if (place === '') return
    if (!place.startsWith(appendMark)) return replaceFile(place, note, mode)
    const file = await open(place.slice(appendMark.length).trim(), 'a', mode)
    try {
      // An empty line separates two notes.
      await file.appendFile(`${note}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
  }

  return {
    write: note => (latest = latest.then(() => writeOne(note)).catch(needs.onError))
  }
}
