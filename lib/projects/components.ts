/* Finds where a component is in place now, in the lists of components that clients sent with their releases. */
import { readFile } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createGate } from '../base/async.js'
import { Refusal } from '../base/errors.js'
import type { Reader } from '../core/store/database.js'
import { findDeployment } from '../core/store/tables/deployments.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { PlacedRelease } from '../model/node.js'
import type { Project } from '../model/project.js'
import {
  type Component,
  type ComponentQuery,
  type ComponentSearch,
  type FoundComponent,
  matchesComponent,
  readSbom
} from '../model/sbom.js'

/** What the search needs. */
interface Needs {
  store: Reader
  /** Path of the list of components of a deployment. */
  sbomOf(deployId: string): string
  liveDeployment(projectId: string): DeploymentRow | undefined
  releasesOnNodes(projectId: string): PlacedRelease[]
}

/** Maximum number of components of an answer. */
const maxFound = 1000
/** Maximum number of projects that an answer names because nothing is known of them. */
const maxUnknown = 1000
/** Lists of components in memory, so that a second search reads no file: about 300,000 components. */
const maxCachedComponents = 300_000
/** Rollbacks and promotions of one release, one from the other. */
const maxSteps = 20
/** Components that are compared without a pause: about 5 ms. */
const componentsPerTurn = 10_000

/** A release in place, and where. */
interface InPlace extends Pick<FoundComponent, 'target' | 'nodes' | 'nodeCount'> {
  project: Project
  row: DeploymentRow
}

/** The search. */
export type Components = ReturnType<typeof createComponents>

/** Creates the search. One runs at a time. */
export function createComponents(needs: Needs) {
  const cache = createCache()
  const gate = createGate({
    places: 1,
    maxWaiting: 8,
    full: () =>
      new Refusal('conflict', 'search_busy', 'Other searches for components are in progress. Try again later', {
        retryAfterSeconds: 5
      })
  })

  /** Returns the components of a deployment, or of the one whose release it deployed again; null: it has no list. */
  async function componentsOf(row: DeploymentRow): Promise<readonly Component[] | null> {
    for (let left = maxSteps, at: DeploymentRow | undefined = row; at !== undefined && left > 0; left--) {
      const known = cache.get(at.id)
      if (known !== undefined) return known
      const bytes = await readIfAny(needs.sbomOf(at.id))
      if (bytes !== null) return cache.put(at.id, componentsIn(bytes))
      const source: string | null = at.rollbackOf ?? at.promotedFrom
      const before: DeploymentRow | undefined = source === null ? undefined : findDeployment(needs.store, source)
      // Another state of the files has other components.
      at = before !== undefined && before.treeSha256 === row.treeSha256 ? before : undefined
    }
    return null
  }

  return {
    /** Searches the releases in place of these projects. */
    async search(projects: readonly Project[], query: ComponentQuery, signal: AbortSignal): Promise<ComponentSearch> {
      const leave = await gate.enter(signal)
      try {
        const answer: ComponentSearch = { success: true, components: [], truncated: false, searched: 0, unknown: [] }
        for (const { project, row, ...place } of inPlace(projects, needs)) {
          signal.throwIfAborted()
          const about = { projectId: project.id, projectName: project.name, deployId: row.id }
          const components = await componentsOf(row)
          if (components === null) {
            if (answer.unknown.length < maxUnknown) answer.unknown.push(about)
            continue
          }
          answer.searched++
          for (const [at, component] of components.entries()) {
            if (at % componentsPerTurn === componentsPerTurn - 1) await nextTurn()
            if (!matchesComponent(component, query)) continue
            if (answer.components.length === maxFound) return { ...answer, truncated: true }
            answer.components.push({ ...about, since: row.endTime ?? row.startTime, ...place, ...component })
          }
          await nextTurn()
        }
        return answer
      } finally {
        leave()
      }
    }
  }
}

function* inPlace(projects: readonly Project[], needs: Needs): Generator<InPlace> {
  for (const project of projects) {
    const releases = needs.releasesOnNodes(project.id)
    if (releases.length === 0) {
      const row = needs.liveDeployment(project.id)
      if (row !== undefined) yield { project, row, target: project.deployPath, nodes: [], nodeCount: 0 }
    }
    for (const { deployId, names, nodes, drained } of releases) {
      const row = deployId === null ? undefined : findDeployment(needs.store, deployId)
      if (row !== undefined) yield { project, row, target: null, nodes: names, nodeCount: nodes + drained }
    }
  }
}

async function readIfAny(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** A list that an earlier svc kept, and this one cannot read, is as none: the search goes on. */
function componentsIn(bytes: Buffer): readonly Component[] | null {
  try {
    return readSbom(bytes).components
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

function createCache() {
  const lists = new Map<string, readonly Component[] | null>()
  let count = 0
  return {
    get(deployId: string): readonly Component[] | null | undefined {
      return lists.get(deployId)
    },
    put(deployId: string, list: readonly Component[] | null): readonly Component[] | null {
      lists.set(deployId, list)
      count += 1 + (list?.length ?? 0)
      // The oldest first.
      for (const [id, old] of lists) {
        if (count <= maxCachedComponents || id === deployId) break
        lists.delete(id)
        count -= 1 + (old?.length ?? 0)
      }
      return list
    }
  }
}
