import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import type { TokenReminder } from '../../lib/model/access.js'
import type { Occasion } from '../../lib/operate/notify/events.js'
import { aDeployment, aProject } from '../core/store/stage.js'

const project = aProject({
  id: 'proj_1',
  name: 'shop',
  deployPath: '/srv/shop',
  token: 'the-secret-token-of-the-project',
  postDeployScript: 'echo the-secret-of-a-script',
  status: 'success'
})

const deployment = aDeployment({
  id: 'dep_1',
  projectId: 'proj_1',
  projectName: 'shop',
  startTime: '2030-01-01T00:00:00.000Z',
  endTime: '2030-01-01T00:00:01.500Z',
  duration: '1.50s',
  message: 'New prices',
  archiveBytes: 1,
  archiveSha256: null,
  fileCount: 1,
  actorIp: null,
  steps: [],
  scripts: []
})

/** Returns a deployment of the project `shop` that has just succeeded, changed by `patch`. */
export function occasion(
  patch: Partial<Omit<Occasion, 'deployment' | 'project'>> & {
    deployment?: Partial<DeploymentRow>
    project?: Partial<Project>
  } = {}
): Occasion {
  return {
    trigger: 'cli',
    event: 'deploy_success',
    errorMessage: null,
    ...patch,
    deployment: { ...deployment, ...patch.deployment },
    project: { ...project, ...patch.project }
  }
}

/** Returns the reminder of a token of the project `shop` that ends in 14 days. */
export function aReminder(patch: Partial<TokenReminder['token']> = {}): TokenReminder {
  const token = { id: 'tok_1', name: 'ci-shop', role: 'deployer', projectIds: ['proj_1'] } as const
  return {
    token: { ...token, projectIds: [...token.projectIds], expiresAt: '2030-01-16T03:04:05.000Z', ...patch },
    daysLeft: 14
  }
}
