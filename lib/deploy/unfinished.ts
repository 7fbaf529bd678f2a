import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { notFound, Refusal } from '../base/refusal.js'
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
   * Gives up what a deployment has left half changed in a target that is gone for good. Audited. Refuses 404, (`conflict`)
   * `target_there`.
   */
  giveUp(deployId: string, actor: Actor): UnfinishedTarget
}

type UnfinishedNeeds = Pick<DeployNeeds, 'store' | 'home' | 'audit'> & {
  targets: { isHeld(deployId: string): boolean }
}

export function createUnfinished({ store, home, audit, targets }: UnfinishedNeeds): Unfinished {
  const found = () =>
    listJournals(home.deployments)
      .filter(({ deployId }) => !targets.isHeld(deployId) && findDeployment(store, deployId)?.heldFor == null)
      .map(({ deployId, path }) => ({ deployId, path, target: describeJournal(path)?.target ?? null }))

  return {
    unfinishedTargets: () => found().map(({ deployId, target }) => ({ deployId, target })),
    giveUp(deployId, actor) {
      const journal = found().find(each => each.deployId === deployId)
      if (journal === undefined) throw notFound('Unfinished target', deployId)
      const { path, target } = journal
      if (target !== null && existsSync(join(target, stagingName(deployId)))) {
        const sentence = `Cannot give up deployment ${deployId}: its target ${target} is there. Restart the server, which finishes it`
        throw new Refusal('conflict', 'target_there', sentence)
      }
      removeJournalFiles(path)
      audit({ action: 'deployment.give_up', actor, projectId: null, target: deployId, detail: target })
      return { deployId, target }
    }
  }
}
