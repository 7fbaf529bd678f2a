import type { DiskFigures } from './machine.js'
import type { Project } from './project.js'
import type { Rollout } from './rollout.js'

/** The events of rollouts, nodes and the server, each with its trigger in notifications. */
export const incidentTriggers = {
  rollout_waiting: 'rollout',
  rollout_halted: 'rollout',
  node_lost: 'node',
  drift_found: 'verification',
  archives_damaged: 'verification',
  disk_low: 'disk',
  backup_failed: 'backup'
} as const

/** The event of an incident. */
export type IncidentEvent = keyof typeof incidentTriggers

/** The project that an incident concerns. */
type About = Pick<Project, 'id' | 'name' | 'deployPath'>

/** Something that happened to a rollout, a node or the server, and that somebody must see to. */
export type Incident =
  | {
      event: 'rollout_waiting' | 'rollout_halted'
      project: About
      rollout: Pick<Rollout, 'id' | 'number' | 'deployId' | 'state' | 'wave' | 'waves' | 'haltedReason'>
    }
  | {
      event: 'node_lost'
      project: null
      node: { id: string; name: string; lastSeenAt: string | null }
      /** The projects that are placed on it. */
      projectIds: string[]
    }
  | {
      event: 'drift_found'
      project: About
      drift: {
        /** Number of files that differ. Null: a node says only that some do. */
        files: number | null
        /** The name of the node; null: the server itself. */
        node: string | null
      }
    }
  | {
      event: 'archives_damaged'
      project: null
      /** Releases that cannot be rolled back to. */
      releases: Array<{ id: string; projectName: string }>
      projectIds: string[]
    }
  | { event: 'disk_low'; project: null; disk: DiskFigures & { path: string } }
  | { event: 'backup_failed'; project: null; backup: { reason: string } }
