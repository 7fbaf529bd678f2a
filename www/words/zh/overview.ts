import type { Words } from '../t.js'

/** Texts of `pages/overview.ts`. */
export const words: Words = {
  'the overview': '概览',
  'The database is not writable.': '其数据库无法写入。',
  'Show the problem': '查看问题所在',
  'Ready for a first project': '可以创建第一个项目了',
  'The server is running and has no projects yet. Deploy the first one in three steps:':
    '服务器已运行，尚无内容。三步完成首次部署：',
  'Ready for a first deployment': '可以进行首次部署了',
  'No deployments yet.': '还没有部署过任何内容。',
  'Deploying {name}': '正在部署 {name}',
  '{count} deployments in progress': '{count} 次部署正在进行',
  '{count} running': '{count} 个进行中',
  '{count} queued': '{count} 个排队中',
  '{name} failed to deploy': '{name} 部署失败',
  'The server does not answer': '服务器没有应答',
  'The server may have stopped, or the network may be down. This page keeps retrying.':
    '可能是服务器已停止，也可能是中间的网络。此页会继续尝试。',
  'No project is broken.': '没有出故障的项目。',
  '{count} projects are broken': '{count} 个项目出现故障',
  'Their last deployments failed. Production comes first, then what broke last.':
    '最近一次部署失败。生产环境排在最前，其次是最近发生故障的项目。',
  'The script of {name} failed in the background': '{name} 的脚本在后台失败',
  '{name} is deployed': '{name} 已部署',
  Healthy: '正常',
  Unhealthy: '异常',
  'Cut off': '已断开',
  'version {version}': '版本 {version}',
  'Success rate': '成功率',
  'Pinned projects': '置顶项目',
  'Last deployments': '最近部署',
  'All deployments': '全部部署',
  Machine: '机器',
  '{day}: {success} succeeded, {failed} failed': '{day}：{success} 次成功，{failed} 次失败',
  'Create a project': '创建项目',
  'First steps': '入门步骤',
  'A project is a directory on this server that deployments go to.': '项目是此服务器上接收部署的目录。',
  'It installs for your user and checks the archive. SHA-256:': '只为当前用户安装，并校验安装包。SHA-256：',
  'Only this machine reaches {server}. For others, set SVC_PUBLIC_URL on the server to the address that they use.':
    '只有本机能访问 {server}。如需让其他机器访问，请在服务器上把 SVC_PUBLIC_URL 设为它们使用的地址。',
  'Install svc where you build': '在构建用的机器上安装 svc',
  Push: '推送',
  'Run it at the top of your repository. It asks for the token that you signed in with, and which project and directory to deploy. This page updates when the deployment arrives.':
    '在代码仓库的顶层目录中运行。命令会询问您登录时使用的令牌，以及要部署的项目和目录。部署到达时，此页会自动更新。',
  'No terminal at hand? Drop a folder or a zip instead.': '手边没有终端？也可以拖入文件夹或 zip。',
  // What waits for somebody.
  since: '开始于',
  Show: '查看',
  // Locks.
  Locked: '已锁定',
  'In maintenance': '维护中'
}
