import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { renderCompletion, shells } from '../completion.js'
import { commands } from '../main.js'

export const command = defineCommand({
  operands: {
    shell: { required: true, help: shells.join(', ') }
  },
  options: {},
  details:
    'bash: put  eval "$(svc completion bash)"  into ~/.bashrc. zsh: the same into ~/.zshrc, after compinit.\n' +
    'fish: svc completion fish > ~/.config/fish/completions/svc.fish',
  examples: [['completion bash', 'print the completion script of bash']],
  async run({ operands }, { output }) {
    const shell = shells.find(name => name === operands.shell)
    if (shell === undefined) throw usage(operands.shell, `there is no completion for "${operands.shell}", only for ${shells.join(', ')}`)
    const rows = await Promise.all(commands.map(async ({ name, summary, load }) => {
      return { name, summary, command: name === 'help' ? null : (await load()).command }
    }))
    await output.write(renderCompletion(shell, rows))
    return exitCodes.success
  }
})
