import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes } from '../command.js'

export const command = defineCommand({
  operands: {},
  options: {
    json: { type: 'switch', help: 'every path of the data directory, as JSON' }
  },
  details: 'SVC_HOME chooses another directory than ~/.svc.',
  examples: [['home', 'print where configuration, database and archives are kept']],
  async run({ options }, { env, cwd, output }) {
    const home = locateHome(env, cwd)
    if (options.json) output.json(home)
    else output.print(home.directory)
    return exitCodes.success
  }
})
