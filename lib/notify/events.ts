import type { DeploymentRow, EventKey, NotificationTrigger } from '../model/deployment.js'
import { deploymentPage } from '../model/links.js'
import type { Project } from '../model/project.js'

/** What happened to a deployment, and why the world is told (§6.5). */
export interface Occasion {
  trigger: NotificationTrigger
  event: EventKey
  deployment: DeploymentRow
  project: Project
  /** Why it failed; null: it did not. */
  errorMessage: string | null
}

/** What a payload is made of: an occasion, or the test that looks like one. */
export interface Notification {
  trigger: NotificationTrigger | 'test'
  event: EventKey | 'webhook_test'
  timestamp: string
  project: Pick<Project, 'id' | 'name' | 'deployPath'>
  deployment: Pick<DeploymentRow, 'id' | 'status' | 'duration' | 'startTime' | 'endTime' | 'rollbackOf' | 'message' | 'provenance'>
  errorMessage: string | null
  /** Its page; null where the server does not know how people reach it. */
  url: string | null
}

/** An occasion as it is at this moment: the record may change while the delivery is tried again. */
export function notificationOf(occasion: Occasion, nowMs: number, publicUrl: string | null): Notification {
  const { trigger, event, deployment, project, errorMessage } = occasion
  const timestamp = new Date(nowMs).toISOString()
  return { trigger, event, timestamp, project, deployment, errorMessage, url: deploymentPage(publicUrl, deployment.id) }
}

/** What the test button sends: every field is there, and the event is none that a receiver acts upon. */
export function testNotification(nowMs: number, publicUrl: string | null): Notification {
  const timestamp = new Date(nowMs).toISOString()
  return {
    trigger: 'test',
    event: 'webhook_test',
    timestamp,
    project: { id: 'proj_test', name: 'Test', deployPath: '/srv/test' },
    deployment: {
      id: 'dep_test',
      status: 'success',
      duration: '0.00s',
      startTime: timestamp,
      endTime: timestamp,
      rollbackOf: null,
      message: 'A test message: nothing was deployed',
      provenance: null
    },
    errorMessage: null,
    // There is no such deployment: the panel itself.
    url: publicUrl === null ? null : `${publicUrl}/`
  }
}

/** One line for people. */
export function headlineOf({ trigger, event, project }: Pick<Notification, 'trigger' | 'event' | 'project'>): string {
  const hasFailed = event === 'deploy_failure'
  switch (trigger) {
    case 'cli':
      return `${project.name}: deployment ${hasFailed ? 'failed' : 'succeeded'}`
    case 'rollback':
      return `${project.name}: rollback ${hasFailed ? 'failed' : 'succeeded'}`
    case 'async_post_deploy':
      return `${project.name}: the post-deploy script in the background failed`
    case 'manual':
      return `${project.name}: deployment marked as ${hasFailed ? 'failed' : 'successful'}`
    case 'test':
      return 'a test message: notifications arrive here'
  }
}
