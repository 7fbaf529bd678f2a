import { locateHome } from '../../base/config/home.js'
import { readVersion } from '../../base/config/version.js'
import { defineCommand, type Family, toggle } from '../command.js'

/** The commands for this installation of svc. */
export const commands = {
  home: defineCommand({
    options: { json: toggle('print all paths in the data directory as JSON') },
    details: 'The default is ~/.svc. SVC_HOME sets another directory.',
    examples: [['home', 'print the directory of the configuration, database and archives']],
    async run({ options }, { env, cwd, output }) {
      const home = locateHome(env, cwd)
      output.result(options.json, home, home.directory)
    }
  }),

  version: defineCommand({
    examples: [['version', 'print the version, like "svc --version"']],
    async run(_, { output }) {
      output.print(readVersion())
    }
  })
} satisfies Family
