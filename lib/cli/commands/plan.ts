import { resolve } from 'node:path'
import { openDeploy, projectIdOf } from '../client/session.js'
import { defineCommand, type Family, option, toggle, usage } from '../command.js'
import { packOptions, scriptOptions, sharedOptions } from '../common-options.js'
import { listIgnored, packConfiguration } from '../pack/pack.js'
import { openIndex } from '../pack/push-index.js'
import { planProject, savePlan } from '../pack/push-plan.js'
import { wishesOf, wishOptions } from '../push-options.js'
import { exitCodeOf, planLines } from '../plan-view.js'
import { withInterrupts } from '../terminal/prompt.js'

/** The command that shows what a push would do. */
export const commands = {
  plan: defineCommand({
    options: {
      env: sharedOptions.env,
      ...packOptions,
      server: sharedOptions.server,
      project: { ...sharedOptions.project, help: 'id or name of the project to plan for' },
      token: option('token', 'deploy token, or a named one; "-" reads it from standard input'),
      ...scriptOptions,
      ...wishOptions,
      foreign: toggle('show what "svc push --prune=foreign" would remove, and what the policy protects'),
      all: toggle('list every path'),
      json: toggle('print the plan as JSON'),
      save: option('file', 'write the plan to a file, for "svc push --plan"'),
      'exit-code': toggle('exit with 3 if something would change, with 4 if files were edited')
    },
    details:
      'Shows what "svc push" with the same options would do. The files are read and their digests are sent; nothing\n' +
      'is uploaded or changed. The server compares them with the files that are in the target now.\n\n' +
      'The exit code is 1 if the push would be refused, otherwise 0. With --exit-code it is 4 if files were edited\n' +
      'on the server since svc put them there, 3 if something would change, and 0 if nothing would change.\n\n' +
      'A push with the saved plan fails, and changes nothing, if the local files or the target differ from the plan.\n' +
      'The server keeps a plan for 15 minutes, and forgets it when it restarts.',
    examples: [
      ['plan', 'show what a push would do'],
      ['plan --save plan.json && svc push --plan plan.json', 'push exactly what the plan shows'],
      ['plan --foreign', 'list the files of the target that svc did not put there'],
      ['plan --exit-code --json', 'find out in a script whether a push would change anything']
    ],
    async run({ options }, context) {
      const { output } = context
      if (options.foreign && options.prune !== undefined && options.prune !== 'foreign')
        throw usage('--foreign', '--foreign and --prune exclude each other: --foreign is --prune=foreign')
      const given = await packConfiguration(context, options)
      projectIdOf(context, given)
      await listIgnored(context, given, options)
      const { client, config } = await openDeploy(context, given)
      const projectId = projectIdOf(context, config)
      const { all, save } = options
      const plan = await withInterrupts(context.host, async signal =>
        planProject(
          {
            client,
            projectId,
            config,
            index: await openIndex(context, { client, projectId, isUsed: options.index }),
            wishes: wishesOf(options.foreign ? { ...options, prune: 'foreign' } : options),
            all,
            signal
          },
          context
        )
      )
      output.result(options.json, plan, () => planLines(plan, { paint: output.paint, nowMs: Date.now(), all }))
      if (save !== undefined) await savePlan(resolve(context.cwd, save), plan)
      return exitCodeOf(plan, options['exit-code'])
    }
  })
} satisfies Family
