/*
 * Downloads edited files of a target into a local directory (`svc drift --fetch`). The paths come from the server, so
 * each is checked, no link is followed, and no existing file is replaced.
 */
import { lstat, mkdir, open, rm } from 'node:fs/promises'
import { isAbsolute, join, win32 } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../base/errors.js'

/** What to download. */
export interface Fetching {
  directory: string
  paths: readonly string[]
  /** Returns the contents of a file. */
  open(path: string): Promise<AsyncIterable<Buffer>>
  signal: AbortSignal
}

/** A file that was not downloaded. */
export interface NotFetched {
  path: string
  reason: string
}

/** Downloads the files one after the other, and returns those that were not downloaded. */
export async function fetchFiles({ directory, paths, open: openRemote, signal }: Fetching): Promise<NotFetched[]> {
  await mkdir(directory, { recursive: true })
  const left: NotFetched[] = []
  for (const path of paths) {
    try {
      const place = await makePlace(directory, path)
      await save(place, () => openRemote(path))
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof Refusal || error instanceof UnsafePath) left.push({ path, reason: error.message })
      else if (hasCode(error, 'EEXIST')) left.push({ path, reason: 'It exists already' })
      else if ((error as NodeJS.ErrnoException).code === undefined) throw error
      else left.push({ path, reason: reasonOf(error) })
    }
  }
  return left
}

/** Makes the directories above a path, and returns its place. Throws `UnsafePath` for one that leads out of the directory. */
async function makePlace(directory: string, path: string): Promise<string> {
  const names = path.split('/')
  const isPlain = (name: string): boolean => name !== '' && name !== '.' && name !== '..' && !name.includes('\0')
  const isForeign = process.platform === 'win32' && (win32.isAbsolute(path) || /[\\:]/.test(path))
  if (isAbsolute(path) || isForeign || !names.every(isPlain))
    throw new UnsafePath('The path leads out of the directory')
  let at = directory
  for (const name of names.slice(0, -1)) {
    at = join(at, name)
    await mkdir(at).catch(error => {
      if (!hasCode(error, 'EEXIST')) throw error
    })
    if (!(await lstat(at)).isDirectory()) throw new UnsafePath(`"${at}" is not a directory`)
  }
  return join(at, names.at(-1) as string)
}

class UnsafePath extends Error {}

/** Writes a new file. A file that is not complete is removed. */
async function save(place: string, open_: () => Promise<AsyncIterable<Buffer>>): Promise<void> {
  const file = await open(place, 'wx')
  try {
    for await (const chunk of await open_()) await file.write(chunk)
    await file.close()
  } catch (error) {
    await file.close().catch(() => {})
    await rm(place, { force: true })
    throw error
  }
}
