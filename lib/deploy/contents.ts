/* Where the contents of earlier files are. */
import { pathOfLine, type ScriptedLine } from '../model/manifest.js'
import { readScripted } from '../install/scripted-file.js'
import type { ContentSource, WantedFrom } from './exact-state.js'
import type { DeployFiles } from './files.js'

/** Returns the path of the zip that contains an entry. */
export function pathOfSource(files: DeployFiles, { kind, deployId }: ContentSource): string {
  if (kind === 'scripted') return files.scriptedImages(deployId)
  return kind === 'archive' ? files.archive(deployId) : files.before(deployId)
}

/**
 * Finds the contents that scripts have made: the archive of their deployment has other ones. Changes the sources of these
 * entries; `onNone` gets one whose contents were too large to be kept, and throws.
 */
export async function findScripted(
  files: DeployFiles,
  wanted: readonly WantedFrom[],
  onNone: (entry: WantedFrom, deployId: string) => never
): Promise<void> {
  const known = new Map<string, ReadonlyMap<string, ScriptedLine>>()

  async function linesOf(deployId: string): Promise<ReadonlyMap<string, ScriptedLine>> {
    const lines = known.get(deployId) ?? new Map<string, ScriptedLine>()
    if (known.has(deployId)) return lines
    known.set(deployId, lines)
    for await (const line of readScripted(files.scripted(deployId)))
      (lines as Map<string, ScriptedLine>).set(pathOfLine(line), line)
    return lines
  }

  for (const entry of wanted) {
    // What a script has left as it was may come from a deployment before, and so on.
    for (const seen = new Set<string>(); entry.source?.kind === 'archive' && !seen.has(entry.source.deployId); ) {
      const { deployId } = entry.source
      seen.add(deployId)
      const line = (await linesOf(deployId)).get(entry.path)
      if (line === undefined || !('path' in line) || line.sha256 !== entry.sha256 || line.kept === undefined) break
      if (line.kept === 'none') onNone(entry, deployId)
      if (line.kept === 'scripted') entry.source = { kind: 'scripted', deployId }
      else if (line.kept !== 'before') entry.source = { kind: 'archive', deployId: line.kept.slice('archive:'.length) }
    }
  }
}
