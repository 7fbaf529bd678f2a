import { defineCommand, exitCodes, usage } from '../command.js'
import { renderCompletion, shells } from '../completion.js'

/** The command `svc completion`. */
export const command = defineCommand({
  operands: {
    shell: { required: true, help: shells.join(', ') }
  },
  options: {},
  details:
    'bash: add eval "$(svc completion bash)" to ~/.bashrc.\n\n' +
    'zsh: add source <(svc completion zsh) to ~/.zshrc, after compinit.\n\n' +
    'fish: run svc completion fish > ~/.config/fish/completions/svc.fish\n\n' +
    'Completion also offers environments, deployments and projects. It asks the server for them, and offers none\n' +
    'if the server does not answer within two seconds.',
  examples: [['completion bash', 'print the completion script for bash']],
  async run({ operands }, { output, commands }) {
    const shell = shells.find(name => name === operands.shell)
    if (shell === undefined)
      throw usage(operands.shell, `Unknown shell "${operands.shell}": choose one of ${shells.join(', ')}`)
    const shown = commands.filter(({ hidden }) => hidden !== true)
    const rows = await Promise.all(
      shown.map(async ({ name, aliases, summary, load }) => {
        return { name, aliases, summary, command: name === 'help' ? null : (await load()).command }
      })
    )
    await output.write(renderCompletion(shell, rows))
    return exitCodes.success
  }
})
