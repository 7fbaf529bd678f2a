import { answer, type Operations } from '../operation.js'
import { deployment } from '../records.js'
import { boolean, record } from '../schema.js'

interface Decided {
  success: boolean
  deployment: unknown
}

/** Decisions about deployments whose earlier files can still be put back. */
export const confirmOperations: Operations = {
  'POST /api/deployments/:id/confirm': {
    summary: 'Confirm a deployment',
    description:
      'Settles a deployment that waits to be confirmed: its files stay. The response is sent when the result is recorded.',
    answers: answer(
      'The record',
      record<Decided>({ success: boolean(true), deployment: deployment as never }) as never
    ),
    errors: ['not_found', 'not_waiting', 'too_late', 'other_project']
  },
  'POST /api/deployments/:id/revert': {
    summary: 'Put the files before a deployment back',
    description:
      'Possible while the checks of the deployment run, and while it waits to be confirmed. `success` is false if the files could not be put back yet.',
    answers: answer(
      'The record',
      record<Decided>({ success: boolean(true), deployment: deployment as never }) as never
    ),
    errors: ['not_found', 'not_waiting', 'too_late', 'other_project']
  }
}
