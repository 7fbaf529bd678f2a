/*
 * Checks the names of files and links against each other, like `checkNames` of names.ts, if they come sorted by their
 * UTF-8 bytes. All paths that begin with the same text then follow each other, so only the entries whose names begin
 * the current one are kept, whatever the number of entries.
 */
import { checkDirectories, refuseAbove, type NamedEntry } from './names.js'

/** Checks sorted names. */
export interface SortedNames<Entry extends NamedEntry> {
  /** Takes the next entry. Returns the refusal (file_and_directory, written_through_link) of an earlier one, or null. */
  add(entry: Entry): { entry: Entry; refusal: Error } | null
  /** Refuses (`invalid`): too_many_directories. */
  end(): void
}

/** Creates the check. */
export function createSortedNames<Entry extends NamedEntry>(): SortedNames<Entry> {
  const found = { directories: 0, characters: 0 }
  /** Each one's path begins the next one's. */
  const beginning: Entry[] = []
  let before = ''
  let entries = 0

  /** Counts the directories above `path` that are not above `before`: nothing earlier is below them. */
  function countDirectories(path: string): void {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      if (before.startsWith(path.slice(0, end + 1))) return
      found.directories++
      found.characters += end
    }
  }

  return {
    add(entry) {
      const { path } = entry
      while (beginning.length > 0 && !path.startsWith(beginning.at(-1)?.path ?? '')) beginning.pop()
      const above = beginning.find(({ path: start }) => path[start.length] === '/')
      beginning.push(entry)
      countDirectories(path)
      before = path
      entries++
      return above === undefined ? null : { entry: above, refusal: refuseAbove(above) }
    },
    end: () => checkDirectories(found, entries, before)
  }
}
