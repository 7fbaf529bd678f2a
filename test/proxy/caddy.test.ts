import t from 'tap'
import { findCaddy, startCaddy } from './caddy.js'
import { keepsPromises } from './contract.js'

const program = findCaddy()
keepsPromises(
  t,
  'Caddy',
  (t, options) => startCaddy(t, program as string, options),
  program === null && 'there is no caddy on this machine'
)
