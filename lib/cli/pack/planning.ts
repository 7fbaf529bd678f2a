import { treeOf, type SourceTree } from '../../archive/tree.js'
import { countOf } from '../../base/text.js'
import type { EffectiveConfig } from '../../config/precedence.js'
import type { PlanAnswer, PruneMode } from '../../model/plan.js'
import { formatBytes } from '../../shared/size.js'
import type { Api } from '../client/api.js'
import { requestPlan } from '../client/plan-request.js'
import type { Context } from '../command.js'
import { humanDuration } from '../terminal/units.js'
import { selectionOf } from './packing.js'
import { findRoot, select } from './select.js'

/** Reads the files of the configuration, shows the progress, and returns their tree. Writes no archive. */
export async function readTreeOfProject(
  { cwd, output }: Context,
  config: EffectiveConfig,
  signal: AbortSignal
): Promise<SourceTree> {
  const startedAtMs = Date.now()
  const bar = output.progress(`Reading ${config.outputDir.value}`)
  try {
    const selection = { ...selectionOf(cwd, config), signal }
    const warnings: string[] = []
    const warn = (sentence: string): void => void warnings.push(sentence)
    const sources = await select(await findRoot(selection), selection, { except: [], warn })
    const totalBytes = sources.reduce((sum, { bytes }) => sum + bytes, 0)
    const tree = await treeOf(sources, { onProgress: bytes => bar.update(bytes, totalBytes), signal })
    const took = humanDuration(Date.now() - startedAtMs)
    bar.end(`Read ${countOf(tree.entries.length, 'file')}, ${formatBytes(tree.bytes)}, in ${took}`)
    for (const warning of warnings) output.warn(warning)
    return tree
  } catch (error) {
    bar.clear()
    throw error
  }
}

/** What a deployment asks for instead of the policy of the project. */
export interface Wishes {
  prune: Exclude<PruneMode, 'off'> | undefined
  force: boolean
}

/** What to plan. */
export interface Planning {
  api: Api
  projectId: string
  config: EffectiveConfig
  wishes: Wishes
  /** Whether all paths are wanted. */
  all: boolean
  signal: AbortSignal
}

/** Reads the files, and asks the server what their deployment would do. Refuses what `requestPlan` refuses. */
export async function planProject(planning: Planning, context: Context): Promise<PlanAnswer> {
  const { api, projectId, config, wishes, all, signal } = planning
  const tree = await readTreeOfProject(context, config, signal)
  const scripts = { preDeploy: config.preDeploy?.value, postDeploy: config.postDeploy?.value }
  return requestPlan(api.client, { projectId, tree, wishes, all, scripts, signal })
}
