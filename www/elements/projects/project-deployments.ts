import { SvcDeployments } from '../deployments/svc-deployments.js'
import { SvcLive } from '../deployments/svc-live.js'
import { SvcProjectDeploy } from '../deployments/svc-project-deploy.js'
import { SvcUpload } from '../deployments/svc-upload.js'
import { SvcLog } from '../logs/svc-log.js'
import { SvcBroken } from './svc-broken.js'
import { SvcOwned } from './svc-owned.js'

/** The elements that the page of a project registers for its deployments. */
export const elements = {
  'svc-broken': SvcBroken,
  'svc-deployments': SvcDeployments,
  'svc-live': SvcLive,
  'svc-log': SvcLog,
  ...SvcLog.parts,
  'svc-owned': SvcOwned,
  'svc-project-deploy': SvcProjectDeploy,
  'svc-upload': SvcUpload
}
