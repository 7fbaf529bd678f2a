import t from 'tap'
import { keepsPromises } from './contract.js'
import { findNginx, startSecureNginx } from './nginx.js'

const program = findNginx()
keepsPromises(
  t,
  'nginx',
  (t, options) => startSecureNginx(t, program as string, options),
  program === null && 'there is no nginx on this machine'
)
