/*
 * The directories of a target, each held while it is in use (held.ts).
 *
 * Items come in the order of the archive, which may switch between folders, so some hundred folders stay open. The
 * folder of an item is reached name by name, each from the folder above it.
 */
import { parentOf } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import type { Disk } from './disk.js'
import { holdChild, refuseRenamable, statHeld, type HeldDirectory } from './held.js'

/** Held directories of a target, by their paths. */
export interface Folders {
  /**
   * Returns the path to use in calls for the directory at `path`, valid until the next call. `path` is relative; `''`
   * is the target itself. Refuses (`conflict`): written_through_link, and target_changed if it is no longer a
   * directory.
   */
  at(path: string): string
  /**
   * Returns the path to use in calls for the entry at `path`, by its held folder, valid until the next call. Refuses
   * like `at`.
   */
  place(path: string): string
  close(): void
}

/** Maximum number of descriptors that one extraction keeps open for folders. */
const maxHeld = 200

/** Holds directories below `root` on demand. */
export function holdFolders(disk: Disk, root: HeldDirectory): Folders {
  const held = new Map<string, HeldDirectory>()
  let last = { path: '', directory: root }

  function find(path: string): HeldDirectory {
    if (path === last.path) return last.directory
    const directory = path === '' ? root : (held.get(path) ?? open(path))
    last = { path, directory }
    return directory
  }

  function open(path: string): HeldDirectory {
    const parent = find(parentOf(path))
    const directory = enter(disk, parent, path)
    if (held.size >= maxHeld) releaseOldest()
    held.set(path, directory)
    return directory
  }

  function releaseOldest(): void {
    for (const [path, directory] of held) {
      held.delete(path)
      return directory.close()
    }
  }

  return {
    at: path => find(path).path,
    place: path => `${find(parentOf(path)).path}/${nameOf(path)}`,
    close() {
      last = { path: '', directory: root }
      for (const directory of held.values()) directory.close()
      held.clear()
    }
  }
}

function enter(disk: Disk, parent: HeldDirectory, path: string): HeldDirectory {
  const name = nameOf(path)
  try {
    const directory = holdChild(disk, parent, name)
    if (directory.fd === null) refuseRenamable(statHeld(disk, directory), path)
    return directory
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw changedMeanwhile(path, 'was removed')
    if (code !== 'ENOTDIR' && code !== 'ELOOP') throw error
    const isLink = disk.lstatSync(`${parent.path}/${name}`, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
    throw isLink ? throughLink(path) : changedMeanwhile(path, 'is no longer a directory')
  }
}

/** The 409 for a symbolic link in the target where the archive needs a directory. */
export function throughLink(path: string): Refusal {
  return new Refusal(
    'conflict',
    'written_through_link',
    `Nothing was changed: "${path}" in the target is a symbolic link, and svc does not write through links`
  )
}

/** The 409 for an entry of the target that changed between two checks. */
export function changedMeanwhile(path: string, how: string): Refusal {
  return new Refusal(
    'conflict',
    'target_changed',
    `The target was put back: "${path}" ${how} while the archive was being extracted; try again`
  )
}

/** Returns the last name of a path. */
export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
