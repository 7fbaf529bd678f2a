import type { Client } from '../../server/client.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { css, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { installView } from './install-line.js'
import { commandView, firstCommands } from './project-fields.js'
import { serverAddress } from '../../dom/address.js'
import { SvcCopy } from '../base/facts.js'
import { may } from '../../state/session.js'

interface Step {
  number: number
  heading: string
  isDone: boolean
  body: Template
}

/**
 * The steps to a first deployment on an empty server, each checked off when it is done. Properties: `project`, the
 * newest project or undefined; `server`, the base address; `client`.
 */
export class SvcFirstSteps extends SvcElement {
  static override sheet = css`
    svc-first-steps {
      display: block;

      ol > li { display: grid; grid-template-columns: 28px minmax(0, 1fr); gap: 4px 16px; padding: 20px 24px; }
      ol > li + li { border-top: 1px solid var(--line); }
      .sign {
        display: grid;
        place-items: center;
        width: 28px;
        height: 28px;
        border: 1px solid var(--edge);
        border-radius: 50%;
        color: var(--muted);
        font-size: var(--size-13);
        font-weight: 600;
      }
      .done .sign { border-color: transparent; background: var(--success-quiet); color: var(--success); }
      .body { display: grid; gap: 10px; padding-top: 2px; justify-items: start; }
      .body p { color: var(--muted); max-width: 100%; overflow-wrap: anywhere; }
      .command { width: 100%; }
      .warning { display: flex; gap: 8px; }
      .warning .icon { margin-top: 3px; color: var(--warning); }
      @media (max-width: 719px) { ol > li { padding: 16px; gap: 4px 12px; } }
    }
  `

  server = ''
  project: Project | undefined
  client!: Client
  #sum: string | null = null
  #isCopied = false

  protected override connected(): void {
    this.client.call('GET /api/settings/status', { signal: this.signal }).then(
      ({ archives }) => {
        this.#sum = archives.client
        this.update()
      },
      () => {}
    )
  }

  protected override view(): Template {
    const project = this.project
    const server = serverAddress(this.server)
    return html`
      <ol class="card" aria-label="${t('First steps')}">
        ${this.#step({
          number: 1,
          heading: t('Create a project'),
          isDone: project !== undefined,
          body:
            project === undefined
              ? html`
            <p>${t('A project is a directory on this server that deployments go to.')}</p>
            ${may('create_project') ? html`<a class="button primary" href="projects?new">${t('Create a project')}</a>` : null}`
              : html`
            <p><a href="projects/${project.id}">${project.name}</a> → <code>${project.deployPath}</code></p>`
        })}
        ${this.#step({
          number: 2,
          heading: t('Install svc where you build'),
          isDone: this.#isCopied,
          body: html`${installView({ server, edition: 'client', sum: this.#sum, onCopy: () => this.#copied() })}`
        })}
        ${this.#step({
          number: 3,
          heading: t('Push'),
          isDone: false,
          body: html`
          <div class="command">${commandView(firstCommands(server))}<svc-copy .text="${firstCommands(server)}"></svc-copy></div>
          <p>${t('Run it at the top of your repository. It asks for the token that you signed in with, and which project and directory to deploy. This page updates when the deployment arrives.')}</p>
          ${
            project === undefined
              ? null
              : html`<p><a href="projects/${project.id}">${t('No terminal at hand? Drop a folder or a zip instead.')}</a></p>`
          }`
        })}
      </ol>`
  }

  #step({ number, heading, isDone, body }: Step): Template {
    return html`
      <li class="${isDone ? 'done' : null}">
        <span class="sign">${isDone ? html`${icon('check')}<span class="unseen">${t('Done')}</span>` : number}</span>
        <div class="body"><h2>${heading}</h2>${body}</div>
      </li>`
  }

  #copied(): void {
    this.#isCopied = true
    this.update()
  }
}

/** The elements that a page registers for the first steps. */
export const elements = { 'svc-first-steps': SvcFirstSteps, 'svc-copy': SvcCopy }
