/*
 * `deployments/<id>.scripted`: what the scripts of a deployment changed among the files that svc owns in its target, one
 * line of JSON for each path (model/manifest.ts), in canonical order. It belongs to the deployment as its manifest does:
 * both together say what the target contains. Contents that no archive has are in `<id>.scripted.zip`.
 *
 * The file is complete or absent: it is written under another name, synced, and renamed.
 */
import { createReadStream, existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { linesOf } from '../../base/text.js'
import { syncDirectory, throughBeside } from '../../base/files.js'
import { type ManifestLine, pathOfLine, type ScriptedLine } from '../../model/manifest.js'
import { compareTreePaths } from '../../base/shared/tree-text.js'

/** Number of lines that are written at a time. */
const batchLines = 1_000

/** Yields the lines of such a file in their order; none if it does not exist. */
export async function* readScripted(path: string): AsyncGenerator<ScriptedLine> {
  if (!existsSync(path)) return
  for await (const lines of linesOf(createReadStream(path)))
    for (const line of lines) yield JSON.parse(line) as ScriptedLine
}

/** Returns the lines of such a file by their paths. `text` is its contents. */
export function parseScripted(text: string): Map<string, ScriptedLine> {
  const lines = text.split('\n').filter(Boolean)
  return new Map(lines.map(line => JSON.parse(line) as ScriptedLine).map(line => [pathOfLine(line), line]))
}

const archivePrefix = 'archive:'

/** Returns the deployments whose archives contain what scripts have replaced; also `before` and `none`. */
export function sourcesOfScripted(lines: readonly ScriptedLine[]): string[] {
  const kept = lines.flatMap(({ before }) => (before?.kept === undefined ? [] : [before.kept]))
  return [...new Set(kept.map(each => (each.startsWith(archivePrefix) ? each.slice(archivePrefix.length) : each)))]
}

/** Writes such a file. It and its name are on disk when this resolves. */
export async function writeScripted(path: string, lines: readonly ScriptedLine[]): Promise<void> {
  await throughBeside(path, async beside => {
    const file = await open(beside, 'w', 0o600)
    try {
      for (let at = 0; at < lines.length; at += batchLines) {
        const batch = lines.slice(at, at + batchLines)
        await file.writeFile(batch.map(line => `${JSON.stringify(line)}\n`).join(''))
      }
      await file.datasync()
    } finally {
      await file.close()
    }
  })
  await syncDirectory(dirname(path))
}

/** Returns the lines of two moments: the later one wins, but the earlier one knows the state before the deployment. */
export function joinScripted(earlier: readonly ScriptedLine[], later: readonly ScriptedLine[]): ScriptedLine[] {
  const lines = new Map(earlier.map(line => [pathOfLine(line), line]))
  for (const line of later) {
    const before = lines.get(pathOfLine(line))?.before ?? line.before
    lines.set(pathOfLine(line), before === undefined ? line : { ...line, before })
  }
  return [...lines.values()].sort((a, b) => compareTreePaths(pathOfLine(a), pathOfLine(b)))
}

/** Yields the lines of a manifest together with what the scripts of its deployment changed. Both are in canonical order. */
export async function* withScripted(
  manifest: AsyncIterable<ManifestLine>,
  scripted: AsyncIterable<ScriptedLine>,
  deployId: string
): AsyncGenerator<ManifestLine> {
  const others = scripted[Symbol.asyncIterator]()
  let other = await others.next()
  try {
    for await (const line of manifest) {
      for (
        ;
        !other.done && compareTreePaths(pathOfLine(other.value), pathOfLine(line)) < 0;
        other = await others.next()
      )
        yield alone(other.value)
      if (!other.done && pathOfLine(other.value) === pathOfLine(line)) {
        yield joined(line, other.value, deployId)
        other = await others.next()
      } else yield line
    }
    for (; !other.done; other = await others.next()) yield alone(other.value)
  } finally {
    await others.return?.(undefined)
  }
}

/** Returns the line about a path that the manifest does not have. */
function alone({ isEarly: _, ...line }: ScriptedLine): ManifestLine {
  return { ...line, before: line.before ?? null } as ManifestLine
}

function joined(line: ManifestLine, { isEarly, ...scripted }: ScriptedLine, deployId: string): ManifestLine {
  const found = line.before ?? null
  // Without `kept`, the earlier contents are those that the deployment put there.
  const isSame = found !== null && found.kept === undefined && 'path' in line && found.sha256 === line.sha256
  const before = scripted.before ?? (isSame ? { ...found, kept: `archive:${deployId}` as const } : found)
  if (isEarly) return 'made' in line && before === null ? line : ({ ...line, before } as ManifestLine)
  return { ...scripted, before } as ManifestLine
}
