import {
  type Distance,
  distanceOf,
  environmentOf,
  familiesOf,
  type Family,
  type FamilyMember,
  type FamilyRelease,
  nextOf
} from '../model/family.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { PlacedRelease } from '../model/node.js'
import { defaultEnv, type Project } from '../model/project.js'
import type { Reader } from '../core/store/database.js'
import { findDeployment, treesOf } from '../core/store/tables/deployments.js'
import { listLabels } from '../core/store/tables/projects.js'

interface Needs {
  store: Reader
  /** Returns the deployment whose files are in the target of a project on this server. */
  liveDeployment(projectId: string): DeploymentRow | undefined
  /** Returns what the nodes of a project have; nothing if it is on no node. */
  releasesOnNodes(projectId: string): PlacedRelease[]
}

/** Returns the families among these projects, with the release that is in place in each. */
export function readFamilies(projects: readonly Project[], needs: Needs): Family[] {
  const tagNames = new Map(listLabels(needs.store, 'tag').map(({ id, name }) => [id, name]))
  return familiesOf(projects, { tagNames, defaultEnv }).map(({ name, members }) => {
    return { name, members: describe(members, needs) }
  })
}

function describe(members: readonly Project[], needs: Needs): FamilyMember[] {
  const found = members.map(project => ({ project, ...inPlace(project.id, needs) }))
  const first = found.find(({ release }) => release !== null)
  const history = first === undefined ? [] : treesOf(needs.store, first.project.id)
  const distance = (release: FamilyRelease | null): Distance | null =>
    release === null || release === first?.release
      ? null
      : distanceOf(release.treeSha256, first?.release?.treeSha256 ?? null, history)
  return found.map(({ project, release, nodes }) => ({
    projectId: project.id,
    projectName: project.name,
    env: environmentOf(project, defaultEnv),
    release,
    nodes,
    distance: distance(release),
    promotesTo: nextOf(members, project, defaultEnv)
  }))
}

/** Returns the release that is in place in a project, and on how many of its nodes. */
function inPlace(
  projectId: string,
  { store, liveDeployment, releasesOnNodes }: Needs
): Pick<FamilyMember, 'release' | 'nodes'> {
  const releases = releasesOnNodes(projectId)
  const count = ({ nodes, drained }: PlacedRelease): number => nodes + drained
  const most = releases.find(({ deployId }) => deployId !== null)
  const live = releases.length === 0 ? liveDeployment(projectId) : findDeployment(store, most?.deployId ?? '')
  const all = releases.reduce((sum, release) => sum + count(release), 0)
  const nodes = releases.length === 0 ? null : { have: most === undefined ? 0 : count(most), all }
  return { release: live === undefined ? null : releaseOf(live), nodes }
}

function releaseOf(row: DeploymentRow): FamilyRelease {
  const { id, message, triggerSource, undoOf, provenance, treeSha256 } = row
  const isPromotable = row.hasArtifact && !row.exact && row.status === 'success'
  const since = row.endTime ?? row.startTime
  return { id, message, triggerSource, undoOf, provenance, treeSha256, since, isPromotable }
}
