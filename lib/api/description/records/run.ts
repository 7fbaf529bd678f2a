import type { FinalStatus } from '../../../model/deployment.js'

import { boolean, described, nullable, oneOf, optional, record, text } from '../schema.js'

/** Headers of the response to a request that starts a deployment. */
export const runHeaders = {
  'X-Svc-Deploy-Id': 'The id of the deployment. It is sent as soon as the deployment is recorded.',
  'X-Svc-Deploy-Url': "The URL of the deployment's page, if the server knows its public URL."
}

interface Ran {
  success: boolean
  deployId: string
  status: FinalStatus
  duration: string | null
  rollbackOf?: string
  error?: string | null
}

/** The response with the result of a deployment that the server made by itself. */
export const ranAnswers = {
  200: {
    what: 'The result of the deployment',
    headers: runHeaders,
    json: record<Ran>({
      success: boolean(true),
      deployId: text('dep_1a2b3c4d5e6f7a8b'),
      status: oneOf(['success', 'failed']),
      duration: nullable(text('0.8s')),
      rollbackOf: optional(
        described('The deployment that was rolled back to. Absent for others', text('dep_0a1b2c3d4e5f6a7b'))
      ),
      error: optional(nullable(text('The post-deploy script failed')))
    }) as never
  }
}
