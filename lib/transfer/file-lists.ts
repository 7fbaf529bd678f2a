/*
 * The lists of files in a package: manifests, and what scripts changed. They come from another machine, perhaps from a stranger. A
 * repair or an exact rollback gives files the permissions of their list, and as root it could give them away. So owners are left out,
 * and the bits with which a file runs with the rights of its owner or group.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createLineSplitter, maxLineBytes } from '../base/text.js'
import { setIdBits } from '../install/unowned.js'
import type { EarlierFile } from '../model/manifest.js'

/** Stands for a line that svc would not write: readers of the list report it as damaged. */
const brokenLine = '-'

/** Copies a list without owners and such bits. Returns whether svc could have written all of its lines. */
export async function copyList(from: string, to: string, isLine: (value: unknown) => boolean): Promise<boolean> {
  let isWhole = true
  async function* lines(): AsyncGenerator<string> {
    let taken: string[] = []
    const splitter = createLineSplitter(text => {
      const line = harmless(text, isLine)
      if (line === brokenLine) isWhole = false
      taken.push(`${line}\n`)
    })
    for await (const chunk of createReadStream(from)) {
      splitter.push(chunk as Buffer)
      yield taken.join('')
      taken = []
    }
    splitter.end()
    yield taken.join('')
  }
  await pipeline(lines, createWriteStream(to, { flags: 'wx', mode: 0o600 }))
  return isWhole
}

function harmless(text: string, isLine: (value: unknown) => boolean): string {
  let line: unknown
  try {
    line = JSON.parse(text)
  } catch {
    return brokenLine
  }
  if (!isLine(line)) return brokenLine
  const entry = line as Partial<EarlierFile> & { before?: EarlierFile | null }
  dropRights(entry)
  if (entry.before) dropRights(entry.before)
  const written = JSON.stringify(entry)
  // A reader would take pieces of it for lines.
  return Buffer.byteLength(written) > maxLineBytes ? brokenLine : written
}

function dropRights(entry: Partial<EarlierFile>): void {
  if (entry.mode !== undefined) entry.mode &= ~setIdBits
  delete entry.owner
}
