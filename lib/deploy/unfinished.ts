import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { notFound, Refusal } from '../base/errors.js'
import { stagingName } from '../install/staging.js'
import { describeJournal, listJournals, removeJournalFiles } from '../install/undo.js'
import type { Actor } from '../model/audit.js'
import type { UnfinishedTarget } from '../model/health.js'
import { findDeployment } from '../store/tables/deployments.js'
import type { DeployNeeds } from './needs.js'

/** Targets in which a deployment was interrupted and could not be finished: their disk is missing, or they were moved. */
export interface Unfinished {
  unfinishedTargets(): UnfinishedTarget[]
  /**
   * Gives up what a deployment has left half changed in a target that is gone for good, on this machine or on that of another
   * hub. Audited. Refuses 404, (`conflict`) `target_there`, and what prevents that the hub answers.
   */
  giveUp(deployId: string, asked: { actor: Actor; hub?: string | undefined }): Promise<UnfinishedTarget>
  /** The same on this machine, for the hub that leads, which writes the audit entry. */
  giveUpHere(deployId: string): UnfinishedTarget
}

type UnfinishedNeeds = Pick<DeployNeeds, 'store' | 'home' | 'audit' | 'giveUpOn'> & {
  targets: { isHeld(deployId: string): boolean }
}

/** Creates the functions. */
export function createUnfinished({ store, home, audit, targets, giveUpOn }: UnfinishedNeeds): Unfinished {
  const found = () =>
    listJournals(home.deployments)
      .filter(({ deployId }) => !targets.isHeld(deployId) && findDeployment(store, deployId)?.heldFor == null)
      .map(({ deployId, path }) => ({ deployId, path, target: describeJournal(path)?.target ?? null }))

  function giveUpHere(deployId: string): UnfinishedTarget {
    const journal = found().find(each => each.deployId === deployId)
    if (journal === undefined) throw notFound('Unfinished target', deployId)
    const { path, target } = journal
    if (target !== null && existsSync(join(target, stagingName(deployId)))) {
      const sentence = `Cannot give up deployment ${deployId}: its target ${target} is there. Restart the server, which finishes it`
      throw new Refusal('conflict', 'target_there', sentence)
    }
    removeJournalFiles(path)
    return { deployId, target }
  }

  return {
    unfinishedTargets: () => found().map(({ deployId, target }) => ({ deployId, target })),
    giveUpHere,
    async giveUp(deployId, { actor, hub }) {
      const isElsewhere = hub !== undefined && giveUpOn !== undefined
      const given = isElsewhere ? await giveUpOn(hub, deployId) : giveUpHere(deployId)
      const detail = isElsewhere ? `${given.target ?? 'unknown target'} on the hub "${hub}"` : given.target
      audit({ action: 'deployment.give_up', actor, projectId: null, target: deployId, detail })
      return given
    }
  }
}
