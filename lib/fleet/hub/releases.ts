/*
 * What a node needs before it prepares: the document of a release, signed, and its archive. A node gets only the releases
 * of projects that are placed on it.
 */
import { notFound } from '../../base/errors.js'
import { fleetProtocol, type ReleaseDocument, releaseText, type ScriptOffer } from '../../model/fleet-wire.js'
import type { Project } from '../../model/project.js'
import type { PolicyChanges } from '../../model/policy.js'
import type { OpenedVariable } from '../../model/variable.js'
import type { Store } from '../../store/database.js'
import { findDeployment } from '../../store/tables/deployments.js'
import { findPlacement } from '../../store/tables/fleet.js'
import { findProject } from '../../store/tables/projects.js'
import { archiveForNode, rolloutOfDeployment } from '../../store/tables/rollouts.js'
import { type HubKey, type NodeRequest, releaseTextOfProtocol1 } from './voice.js'

/** Encrypts texts of a deployment. */
export interface OfferSealing {
  seal(deployId: string, text: string): Promise<string>
  /** Refuses 503 `variables_key`. */
  unseal(deployId: string, sealed: string): Promise<string>
}

/** Releases, as nodes get them. */
export interface Releases {
  /** Returns the document of a release for a node, and the signature. Refuses 404, 503 `variables_key`. */
  document(asked: NodeRequest, deployId: string): Promise<{ json: string; signature: string }>
  /** Returns the deployment whose archive has this SHA-256. Refuses 404. */
  archiveOf(nodeId: string, sha256: string): string
  /** Returns what the client of an earlier rollout has sent, for a rollback; null: nothing. */
  offerOf(deployId: string): Promise<ScriptOffer | null>
  /** Encrypts what a client has sent; null if it sent nothing. */
  sealOffer(deployId: string, offer: ScriptOffer): Promise<string | null>
  /** Decrypts it. Refuses 503 `variables_key`. */
  openOffer(deployId: string, sealed: string | null): Promise<ScriptOffer>
}

/** Dependencies of the releases. */
export interface ReleasesNeeds {
  store: Store
  key: HubKey
  sealing: OfferSealing
  variables: { open(projectId: string): Promise<readonly OpenedVariable[]> }
  /** Nodes need the header values of checks as they are. Refuses 503 `variables_key`. */
  headers: { open(projectId: string, policy: PolicyChanges): Promise<PolicyChanges> }
  /** Whether clients may send scripts to a project, by its own value or by the setting of the hub. */
  mayClientsSendScripts(project: Project): boolean
}

const nothing: ScriptOffer = { offered: { origin: 'upload' }, clientEnv: {} }

/** Creates the releases. */
export function createReleases(needs: ReleasesNeeds): Releases {
  const { store, key, sealing, variables } = needs

  async function openOffer(deployId: string, sealed: string | null): Promise<ScriptOffer> {
    return sealed === null ? nothing : (JSON.parse(await sealing.unseal(deployId, sealed)) as ScriptOffer)
  }

  return {
    async document(asked, deployId) {
      const { nodeId } = asked
      const rollout = rolloutOfDeployment(store, deployId)
      const row = findDeployment(store, deployId)
      const project = rollout === undefined ? undefined : findProject(store, rollout.projectId)
      const placement = rollout === undefined ? undefined : findPlacement(store, rollout.projectId, nodeId)
      if (rollout === undefined || project === undefined || placement === undefined) throw notFound('Release', deployId)
      const { treeSha256, archiveSha256, archiveBytes } = rollout
      const document: ReleaseDocument = {
        deployId,
        projectId: project.id,
        projectName: project.name,
        env: project.env,
        deployPath: placement.deployPath,
        treeSha256,
        archiveSha256,
        archiveBytes,
        fileCount: row?.fileCount ?? null,
        policy: await needs.headers.open(project.id, project.policy),
        // Nodes must not decide by their settings what the hub has told the user.
        project: { ...settingsOf(project), allowClientScripts: needs.mayClientsSendScripts(project) },
        variables: (await variables.open(project.id)).map(({ name, value, secret }) => ({ name, value, secret })),
        ...(await openOffer(deployId, rollout.sealed)),
        message: row?.message ?? null
      }
      const json = JSON.stringify(document)
      const textOf = asked.protocol < fleetProtocol ? releaseTextOfProtocol1 : releaseText
      return { json, signature: (await key.current()).sign(textOf(asked, json)) }
    },

    archiveOf(nodeId, sha256) {
      const deployId = archiveForNode(store, nodeId, sha256)
      if (deployId === undefined) throw notFound('Archive', sha256)
      return deployId
    },

    async offerOf(deployId) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined || rollout.sealed === null) return null
      const { offered, clientEnv } = await openOffer(deployId, rollout.sealed)
      return { offered: { ...offered, origin: 'source deployment' }, clientEnv }
    },

    async sealOffer(deployId, offer) {
      const { preDeploy, postDeploy } = offer.offered
      const isEmpty = !preDeploy && !postDeploy && Object.keys(offer.clientEnv).length === 0
      const isPlain = offer.offered.origin === 'upload' && offer.offered.postDeployAsync === undefined
      return isEmpty && isPlain ? null : sealing.seal(deployId, JSON.stringify(offer))
    },

    openOffer
  }
}

/** Returns the settings of a project that its deployments on a node use. */
function settingsOf(project: Project): ReleaseDocument['project'] {
  const { preDeployScript, postDeployScript, postDeployAsync, allowedEnv } = project
  const { runAs, umask, scriptTimeoutSeconds, scriptShell, scriptDirectory, pm2AppName, description } = project
  const scripts = { preDeployScript, postDeployScript, postDeployAsync, allowedEnv }
  return { ...scripts, runAs, umask, scriptTimeoutSeconds, scriptShell, scriptDirectory, pm2AppName, description }
}
