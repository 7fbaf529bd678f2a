import { invalid } from '../base/refusal.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/route.js'
import { maxMessageLength } from '../model/deployment.js'
import { line, nullable, oneOf, queryText, readFields } from './fields.js'
import type { Records } from './records.js'
import type { ApiRequest, Handler } from './route.js'
import { param } from './route.js'
import { runReply } from './run-reply.js'

const finalStatuses = ['success', 'failed'] as const
export const markFields = { status: oneOf(finalStatuses) }
export const rollbackFields = { message: nullable(line({ max: maxMessageLength })) }

export interface DeploymentsNeeds {
  deployer: Pick<Deployer, 'rollback' | 'cancel' | 'mark' | 'follow' | 'unrecorded' | 'manifest' | 'changes'>
  records: Pick<Records, 'find' | 'complete'>
  /** Where people see a deployment; null: nobody has said. */
  pageOf(id: string): string | null
}

/** What is done to a deployment, and what it did to files (§4.5, and decided). */
export function deploymentHandlers({ deployer, records, pageOf }: DeploymentsNeeds) {
  return {
    rollback: async request => {
      const { message } = readFields(await optionalBody(request), rollbackFields)
      const run = await deployer.rollback(param(request, 'id'), { message, actor: request.actor })
      if (request.headers.accept?.includes('application/x-ndjson')) return runReply(run, deployer, pageOf(run.deployId))
      const { id, status, duration, errorMessage } = await run.finished
      const failure = status === 'failed' ? { error: errorMessage } : {}
      return json({ success: status === 'success', deployId: id, status, duration, ...failure })
    },

    cancel: async request => {
      const { id } = records.find(request, param(request, 'id'))
      const row = await deployer.cancel(id, request.actor)
      return json({ success: true, message: 'The deployment was cancelled', deployment: await records.complete(row) })
    },

    mark: async request => {
      const { status } = readFields(await request.json(), markFields)
      const row = await deployer.mark(param(request, 'id'), status, request.actor)
      return json({ success: true, deployment: await records.complete(row) })
    },

    files: async request => {
      const { id } = records.find(request, param(request, 'id'))
      return json(await deployer.manifest(id))
    },

    changes: async request => {
      const { id } = records.find(request, param(request, 'id'))
      const against = queryText(request.query, 'against')
      if (against === undefined) throw invalid('against', '"against" is missing: which deployment to compare with')
      return json(await deployer.changes(id, records.find(request, against).id))
    }
  } satisfies Record<string, Handler>
}

/** The body where there is one; a rollback needs none. */
async function optionalBody(request: ApiRequest): Promise<unknown> {
  const { headers } = request
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  return hasBody ? request.json() : {}
}
