import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes } from '../command.js'

/** The command `svc home`. */
export const command = defineCommand({
  operands: {},
  options: {
    json: { type: 'switch', help: 'print all paths in the data directory as JSON' }
  },
  details: 'The default is ~/.svc. SVC_HOME sets another directory.',
  examples: [['home', 'print the directory of the configuration, database and archives']],
  async run({ options }, { env, cwd, output }) {
    const home = locateHome(env, cwd)
    if (options.json) output.json(home)
    else output.print(home.directory)
    return exitCodes.success
  }
})
