import type { Words } from '../t.js'

/** Texts of `pages/project.ts`. */
export const words: Words = {
  Project: '项目',
  'the project': '项目',
  'the history': '历史',
  History: '历史',
  Files: '文件',
  'All {count} deployments': '全部 {count} 次部署',
  'No deployments yet.': '这里还没有部署过任何内容。',
  '{name} was deleted': '已删除 {name}',

  'PM2 application': 'PM2 应用',
  'Rights and limits': '权限与限制',
  'Run as user': '运行用户',
  'Scripts run and files are written with the rights of this user. Requires svc to run as root. Default: the user of svc.':
    '脚本和目录中的文件具有该用户的权限。仅当 svc 以 root 运行时可用。留空：使用 svc 的权限。',
  Umask: '文件权限掩码',
  'Three octal digits. Applies to deployed files and to files that scripts create. Default: the umask of svc.':
    '三位八进制数，用于目录中的文件和脚本创建的内容。留空：使用 svc 的 umask。',
  'Script shell': '脚本的 Shell',
  'sh, bash, or the path of a program that accepts a script with -c. Default: sh.':
    'sh、bash，或以 -c 接收脚本的程序路径。留空：sh。',
  'Script timeout, in seconds': '脚本时限（秒）',
  'After this time, the script is stopped and the deployment fails. If empty, the server setting applies.':
    '超时后脚本会被停止，部署失败。留空：按服务器设置。',
  'Script working directory': '脚本的工作目录',
  'Relative to the project directory, which is the default. Before the first deployment creates it, the pre-deploy script runs in the project directory.':
    '位于项目目录之下。首次部署带来该目录之前，部署前脚本在项目目录中运行。留空：项目目录。',
  'the variables': '变量',
  Variables: '变量',
  'Paste .env file': '粘贴 .env 文件',
  'Add variable': '添加变量',
  'Available to the scripts of this project from the next deployment on. They override variables of a push.':
    '从下一次部署起提供给该项目的脚本，并优先于推送携带的变量。',
  'A push cannot contain scripts, so the deploy token alone cannot read a secret. Uploaded code can, if the scripts of this project start it.':
    '推送不能携带脚本，因此仅凭部署令牌无法读取机密。但若本项目的脚本运行了上传的内容，该内容可以读取。',
  'Unless pushes with scripts are rejected, in this project or in the settings, anyone with the deploy token can read secrets: a script can print them in another form.':
    '除非在本项目或设置中拒绝推送携带的脚本，否则持有部署令牌的人可以读取机密：脚本可以换一种形式输出它们。',
  Delete: '删除',
  'No variables yet.': '还没有变量。',
  'This secret has no value. Scripts do not run until it is set': '机密尚无值：设置之前脚本不会运行',
  Secret: '机密',
  Value: '值',
  'Leave empty to keep the value.': '留空：保持原值。',
  'Lines of the form NAME=value': '形如 NAME=value 的行',
  'Variables with the same name are replaced; others stay. References to variables are not expanded.':
    '同名变量会被替换，其他保持不变。不做任何展开。',
  'Stored encrypted, never shown again, and replaced by *** in outputs. At least 4 characters.':
    '加密保存，不再显示，在输出中显示为 ***。至少 4 个字符。',
  'From the next deployment on, scripts no longer receive it. The value cannot be restored.':
    '从下一次部署起，脚本不再得到它。值无法恢复。',
  '{name} deleted': '已删除 {name}',
  '{name} saved': '已设置 {name}',
  'Variables saved': '变量已设置',
  'Change {name}': '修改 {name}',
  'Delete {name}': '删除 {name}',
  'Disk quota, in MB': '磁盘配额（MB）',
  'For the archives and outputs of this project. A push that exceeds it is rejected. If empty, the project has no quota.':
    '用于压缩包与输出。超出的推送会被拒绝。留空：不单独限制。',
  'Loading PM2 status…': '正在查询 PM2…',
  'No PM2 application with this name': 'PM2 中没有此名称的应用',
  CPU: 'CPU',
  Memory: '内存',
  Restarts: '重启',
  Uptime: '运行时间',
  Instances: '实例',

  'Push from a terminal': '从终端推送',
  'Run this once at the top of your repository, and replace dist with your build directory. After that, run:':
    '首次在代码仓库的顶层目录中运行，并把 dist 换成构建输出的目录；之后只需：',
  'The copied text contains the deploy token of the project.': '复制的内容包含该项目的部署令牌。',
  'Without the svc command': '不使用客户端命令',
  'Deploy from this browser': '在此部署',
  'Drop a zip, files or a folder here': '将压缩包、文件或文件夹拖放到此处',
  'Choose files': '选择文件',
  'Choose a folder': '选择文件夹',
  'Files with the same name are replaced; other files stay.': '同名文件会被替换，其他文件不会删除。',
  Packing: '正在打包',
  Uploading: '正在上传',
  Deploying: '正在部署',
  '{done} of {total}': '{done} / {total}',
  'This deployment': '本次部署',
  'Open deployment': '查看此次部署',

  'Deploy…': '部署…',
  'Deploy to this project': '部署到此项目',
  Live: '当前版本',
  'No deployment has written files yet.': '还没有部署向该目录放入过文件。',
  'In progress': '正在进行',
  Commit: '提交',
  By: '部署者',
  'Rolled back to': '回滚至',
  'a deleted deployment': '已被移除的部署',
  Archive: '压缩包',
  'with uncommitted changes': '含未提交的更改',
  unknown: '未知',
  '{name}, from the panel': '{name}，来自面板',
  'Its post-deploy script failed in the background.': '其部署后脚本在后台失败。',
  'Its files were written, but the deployment failed afterwards.': '文件已就位，但随后部署失败。',

  'Deploy to {name}?': '部署到 {name}？',
  Directory: '目录',
  Contents: '内容',
  'Largest files': '最大的文件',
  'Message (optional)': '说明（可选）',
  'Shown in the history. Files with the same name are replaced; other files stay.':
    '显示在历史中。同名文件会被替换，其他文件不会删除。',
  '{facts}; {size} as a zip': '{facts}；压缩包 {size}',
  'Uncompressed size {size} exceeds the limit of {limit} (setting max_extracted_size).':
    '文件总大小超出服务器可解压的上限：{size}，最多 {limit}（设置 max_extracted_size）。',
  'The zip contains a single folder, “{folder}”: its files will be written to {path}. To write them to the project directory itself, drop the folder instead of the zip.':
    '所有内容都在一个文件夹“{folder}”中：文件将放到 {path}。若要直接放入该目录，请拖放文件夹而不是 zip。',
  'It contains files that svc push excludes: {list}': '其中包含 svc push 会排除的内容：{list}',
  'Deployed as is, not extracted: {list}. A zip is extracted only if it is dropped alone.':
    '将原样放置，不会解压：{list}。只有单独拖放的 zip 才会解压。',
  '“{path}” is encrypted. Create the zip again without a password.': '其中的“{path}”已加密。请重新打包，不要设置密码。',
  'Archive size {size} exceeds the limit of {limit} (setting max_upload_size).':
    '压缩包超出服务器上限：{size}，最多 {limit}（设置 max_upload_size）。',
  '“{name}” is an empty file.': '“{name}”是空文件。',
  '“{name}” is not a zip archive, or only a part of one. Pack it again as a zip.':
    '“{name}”不是 zip 压缩包，或不完整。请重新打包为 zip。',

  '{count} items': '{count} 项',
  'Reading: {files}': '正在查看：{files}',
  'It contains no files to deploy.': '其中没有可部署的内容。',
  Deploy: '部署',
  '{names} and {count} more': '{names} 以及另外 {count} 项',
  '{count} excluded, as in svc push: {list}': '按默认规则排除了 {count} 项：{list}',
  'Included, although excluded by default: {list}': '已包含通常会排除的内容：{list}',
  'Include them': '全部包含',
  'Exclude them': '排除它们',
  'This is more than can be packed here (4 GiB, 65,535 files): use svc push in a terminal.':
    '超出了此处可打包的范围（4 GiB，65,535 个文件）：请在终端使用 svc push。',
  'Two of the files would be called “{path}”.': '有两个文件都会命名为“{path}”。',
  '“{path}” changed while it was being packed.': '打包过程中“{path}”发生了变化。',
  '“{path}” cannot be packed: its name has a character that a path may not have.':
    '无法打包“{path}”：名称中含有路径不允许的字符。',

  Directories: '目录',
  Path: '路径',
  'the files': '目录内容',
  'the file': '文件',
  folder: '个文件夹',
  'No files yet. The first deployment writes them here.': '这里还没有内容：首次部署后才会有。',
  'The list may be incomplete.': '可能还有未显示的内容。',
  'File contents': '文件内容',
  ' … and 1 more character': ' … 还有 1 个字符',
  ' … and {count} more characters': ' … 还有 {count} 个字符',
  Wrap: '换行',
  Download: '下载',
  'The file is empty.': '文件为空。',
  'The file is larger than 1 MB': '文件大于 1 MB',
  'The file is not text': '文件不是文本',
  'The picture is too large to be shown here': '图片过大，无法在此显示',
  '{reason}. You can download it.': '{reason}。可以下载。',

  Name: '名称',
  Environment: '环境',
  Description: '描述',
  'Directory on the server': '服务器上的目录',
  'The next deployment writes its files there. Files of earlier deployments are not moved.':
    '下一次部署将写入此处，之前部署的文件留在原处。',
  'Its state is shown on the project page. Leave empty if there is none.': '其状态会与项目一同显示。留空表示不绑定。',
  Scripts: '脚本',
  'Copy from last deployment': '从最近一次部署填入',
  'No successful deployment has run a script yet': '还没有成功的部署运行过脚本',
  'Runs in the project directory before files are replaced. If it fails, no file is replaced.':
    '在文件到达之前于目录中运行。若失败，则不会替换任何文件。',
  'Runs in the project directory after files are replaced. A script set here overrides the script of a push.':
    '在文件到达之后于目录中运行。此处设置的脚本优先于推送携带的脚本。',
  'Do not wait for the post-deploy script': '不等待部署后脚本',
  'Scripts in a push': '推送携带的脚本',
  'Use the server setting': '遵循服务器设置',
  'Run them unless the project has its own': '在项目自己没有脚本时运行',
  'Reject pushes with scripts': '拒绝携带脚本的推送',
  'Allowed push variables': '允许的推送变量',
  'If pushes with scripts are rejected, only these variables of a push are passed to the scripts set here. Enter names, or prefixes followed by *.':
    '拒绝携带脚本的推送时，只有这里列出的推送变量会传给此处设置的脚本。填写变量名，或以 * 结尾的前缀。',
  Saved: '已保存',
  'Unsaved changes.': '尚未保存。',
  'Leave without saving?': '不保存就离开？',
  'The settings of {name} have unsaved changes.': '{name} 的设置已更改但尚未保存。',
  Stay: '留在此处',
  'Discard changes': '放弃更改',

  'Deploy token': '部署令牌',
  'Allows pushes to this project only.': '持有者可以推送部署到此项目，仅限此项目。',
  'A push cannot contain scripts. Uploaded code still runs if the scripts of this project start it.':
    '推送不能携带脚本。但如果项目自己的脚本会启动上传的内容，它仍会运行。',
  'Unless pushes with scripts are rejected, in this project or in the settings, it can also run any command as the user of svc, which can read all tokens and all projects.':
    '除非在此项目或设置中拒绝推送携带的脚本，否则持有者还能以 svc 的用户身份运行任意命令，而该用户可以读取所有令牌和所有项目。',
  'Unless pushes with scripts are rejected, in this project or in the settings, it can also run any command as the user {user}.':
    '除非在此项目或设置中拒绝推送携带的脚本，否则持有者还能以用户 {user} 的身份运行任意命令。',
  Show: '显示',
  Hide: '隐藏',
  'Regenerate…': '重新生成…',
  'Regenerate token': '重新生成令牌',
  'Regenerate the deploy token?': '重新生成部署令牌？',
  'The current token of {name} stops working immediately. Everything that pushes with it needs the new token.':
    '{name} 当前的令牌将立即失效，所有使用它推送的地方都需要换成新令牌。',
  'Deploy token regenerated. The old token no longer works': '部署令牌已更新，旧令牌不再有效',

  'Delete this project': '删除此项目',
  'Also deletes its deployments, their output and their archives. The files in its directory stay.':
    '其部署记录、输出和压缩包会一并删除，目录中的文件会保留。',
  'Delete project…': '删除项目…',
  'Delete project': '删除项目',
  'Delete {name}?': '删除 {name}？',
  'All its deployments, output and archives are permanently deleted. The files in {path} stay.':
    '其所有部署记录、输出和压缩包将永久丢失。{path} 中的文件会保留。',
  'Type “{name}” to confirm': '输入“{name}”以确认',
  'The name does not match. Type “{name}”.': '名称不符：请输入“{name}”。',

  // Locks.
  'This project is locked': '此项目已锁定',
  'The whole server is locked': '整个服务器已锁定',
  until: '直到',
  'Locked by: {owner}': '锁定者：{owner}',
  'Deploy token of the project': '项目的部署令牌',
  Admin: '管理员',
  'Global deploy token': '全局部署令牌',
  'Operator on the machine': '本机操作者',
  'Unknown actor': '未知来源',
  'svc itself': 'svc 自身',
  'Unlock…': '解锁…',
  'Take over…': '接管…',
  Unlock: '解锁',
  'Take over': '接管',
  'Remove this lock?': '要解除此锁定吗？',
  'Take this lock over?': '要接管此锁定吗？',
  'Deployments are accepted again. The reason of the lock was:': '将重新接受部署。锁定的原因是：',
  'Why do you remove the lock of somebody else?': '为什么要解除他人的锁定？',
  'The audit log keeps your reason.': '审计日志会保留您的理由。',
  'Lock…': '锁定…',
  Lock: '锁定',
  'Lock this project?': '要锁定此项目吗？',
  'Pushes and rollbacks are refused until the lock expires or is removed. A running deployment continues.':
    '在锁定到期或解除之前，推送和回滚都会被拒绝。正在运行的部署会继续。',
  'Everyone whose deployment is refused reads it.': '部署被拒绝的人都会看到它。',
  'Expires after': '有效期',
  '1 hour': '1 小时',
  '4 hours': '4 小时',
  '1 day': '1 天',
  '1 week': '1 周',
  '30 days': '30 天'
}
