import { countOf, oneLine } from '../../base/text.js'
import type { EffectiveConfig } from '../../config/precedence.js'
import type { Context } from '../command.js'
import { pack, type PackLimits, type PackedArchive } from './pack.js'
import { findRoot, select, type Selection } from './select.js'
import { Interrupted } from '../terminal/prompt.js'
import { formatBytes } from '../../shared/size.js'
import { humanDuration } from '../terminal/units.js'

/** Options of `packProject`. */
export interface PackingOptions {
  /** Absolute path of the archive. Default: a temporary file. */
  path?: string
  /** Limits of the server; absent if unknown. */
  limits?: PackLimits | undefined
  signal: AbortSignal
}

/** Returns the files that the configuration names. */
export function selectionOf(cwd: string, config: EffectiveConfig): Selection {
  return {
    cwd,
    outputDir: config.outputDir.value,
    files: config.files.value,
    ignore: { builtin: !config.ignoreBuiltin.value, project: config.projectIgnore.value, cli: config.cliIgnore.value }
  }
}

/** Packs the files of the configuration and shows the progress. The caller must discard a temporary archive. */
export async function packProject(
  { cwd, output }: Context,
  config: EffectiveConfig,
  { path, limits, signal }: PackingOptions
): Promise<PackedArchive> {
  const startedAtMs = Date.now()
  const bar = output.progress(`Packing ${config.outputDir.value}`)
  try {
    const archive = await pack({
      ...selectionOf(cwd, config),
      ...(path !== undefined && { archivePath: path }),
      ...(limits !== undefined && { limits }),
      onProgress: ({ bytes, totalBytes }) => bar.update(bytes, totalBytes),
      signal
    })
    const took = humanDuration(Date.now() - startedAtMs)
    bar.end(
      `Packed ${countOf(archive.files, 'file')}, ${formatBytes(archive.sourceBytes)} into ${formatBytes(archive.bytes)}, in ${took}`
    )
    for (const warning of archive.warnings) output.warn(warning)
    return archive
  } catch (error) {
    bar.clear()
    if (error instanceof Interrupted) output.note('Interrupted: nothing was packed')
    throw error
  }
}

/** Prints what the ignore rules leave out, a line each, if the option asks for it. */
export async function listIgnored(
  { cwd, output }: Context,
  config: EffectiveConfig,
  { 'list-ignored': isWanted }: { 'list-ignored'?: boolean | undefined }
): Promise<void> {
  if (!isWanted) return
  const paths: string[] = []
  const selection = { ...selectionOf(cwd, config), leftOut: (path: string) => void paths.push(path) }
  try {
    await select(await findRoot(selection), selection, { except: [], warn: () => {} })
    if (paths.length === 0) output.note('The ignore rules leave out nothing')
  } finally {
    for (const path of paths) output.note(`Left out: ${oneLine(path)}`)
  }
}
