import type { DeploymentAnswer } from '../../model/deployment.js'

/** The deployment after a decision. */
export interface Decided {
  success: boolean
  deployment: DeploymentAnswer
}

/** Decisions about deployments whose earlier files can still be put back. */
export interface DecisionRoutes {
  /**
   * Confirm a deployment.
   *
   * Settles a deployment that waits to be confirmed: its files stay. The response is sent when the result is recorded.
   * @errors not_found not_waiting too_late other_project
   */
  'POST /api/deployments/:id/confirm': {
    /** The record. */
    answer: Decided
  }
  /**
   * Put the files before a deployment back.
   *
   * Possible while the checks of the deployment run, and while it waits to be confirmed. `success` is false if the
   * files could not be put back yet.
   * @errors not_found not_waiting too_late other_project
   */
  'POST /api/deployments/:id/revert': {
    /** The record. */
    answer: Decided
  }
}
